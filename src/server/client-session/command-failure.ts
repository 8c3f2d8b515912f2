/** Why a command did not do what was asked, for the person who gave it. Must not know: which command, which node. */
export class CommandFailure extends Error {
  readonly exitCode: 1 | 2 | 3;
  /** Whether the same call may be answered a little later. */
  readonly mayPass: boolean;

  constructor(exitCode: 1 | 2 | 3, message: string, mayPass = false) {
    super(message);
    this.exitCode = exitCode;
    this.mayPass = mayPass;
  }
}
