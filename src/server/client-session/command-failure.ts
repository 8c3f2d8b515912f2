/** Why a command did not do what was asked, for the person who gave it. Must not know: which command, which node. */
export class CommandFailure extends Error {
  readonly exitCode: 1 | 2 | 3;

  constructor(exitCode: 1 | 2 | 3, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
