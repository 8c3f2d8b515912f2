/**
 * `palimpsest completion`: scripts that complete its commands and options in bash, zsh and fish.
 *
 * Always true: a script is made of the tree of commands itself, so that no command or option is missing, and asks no
 * node when it runs.
 */
import { Argument, Command } from "commander";

interface Outlet {
  readonly stdout: { write(text: string): unknown };
}

/** A command by its words, such as `branch create`, and what may follow it. */
interface Place {
  readonly path: string;
  readonly about: string;
  readonly children: readonly { readonly name: string; readonly about: string }[];
  readonly options: readonly {
    readonly flag: string;
    readonly about: string;
    readonly choices: readonly string[];
    readonly takesFile: boolean;
  }[];
}

const bashPlace = "~/.local/share/bash-completion/completions/palimpsest";

export function completionCommand(program: Command, around: Outlet): Command {
  return new Command("completion")
    .description("print a script that completes commands in a shell")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", `\nExample:\n  palimpsest completion bash > ${bashPlace}\n`)
    .copyInheritedSettings(program)
    .action((shell: "bash" | "zsh" | "fish") => {
      around.stdout.write({ bash: bashScript, zsh: zshScript, fish: fishScript }[shell](placesOf(program)));
    });
}

function placesOf(program: Command): readonly Place[] {
  const visit = (command: Command, path: string): readonly Place[] => {
    const children = command.commands.flatMap((child) =>
      [child.name(), ...child.aliases()].map((name) => ({ name, about: firstLine(child.description()), child })),
    );
    const options = command.options.flatMap(({ long, short, description, argChoices, flags }) =>
      [long, short].flatMap((flag) =>
        flag
          ? [{ flag, about: firstLine(description), choices: argChoices ?? [], takesFile: /<file>/.test(flags) }]
          : [],
      ),
    );
    const help = { flag: "--help", about: "say how it is used", choices: [], takesFile: false };
    return [
      { path, about: firstLine(command.description()), children, options: [...options, help] },
      ...children.flatMap(({ name, child }) => visit(child, path === "" ? name : `${path} ${name}`)),
    ];
  };
  return visit(program, "");
}

/** A few words, of letters that no shell takes for its own. */
function firstLine(text: string): string {
  return text
    .split(/[\n(;]/)[0]!
    .replaceAll(/[^\w ,.<>/-]/g, "")
    .trim();
}

function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ path, children, options }) => {
    const words = [...children.map(({ name }) => name), ...options.map(({ flag }) => flag)];
    return `    "${path}") words="${words.join(" ")}" ;;`;
  });
  const isPlace = places.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  const reply = (made: string): string => `COMPREPLY=($(compgen ${made} -- "$current")); return ;;`;
  const values = choiceCases(places, (choices) => reply(`-W "${choices.join(" ")}"`), reply("-f"));
  return `# Completion of palimpsest for bash.
_palimpsest() {
  local current previous path word words
  current="\${COMP_WORDS[COMP_CWORD]}"
  previous="\${COMP_WORDS[COMP_CWORD-1]}"
  path=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${path:+$path }$word" in
    ${isPlace.join("|")}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path $previous" in
${values}
  esac
  words=""
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _palimpsest palimpsest
`;
}

/** Cases of a place and an option whose values are known. */
function choiceCases(places: readonly Place[], act: (choices: readonly string[]) => string, files: string): string {
  return places
    .flatMap(({ path, options }) =>
      options.flatMap(({ flag, choices, takesFile }) => {
        if (choices.length > 0) return [`    "${path} ${flag}") ${act(choices)}`];
        return takesFile ? [`    "${path} ${flag}") ${files}`] : [];
      }),
    )
    .join("\n");
}

function zshScript(places: readonly Place[]): string {
  const described = (name: string, about: string): string => `'${name}:${about}'`;
  const cases = places.map(
    ({ path, children, options }) =>
      `    "${path}") commands=(${children.map(({ name, about }) => described(name, about)).join(" ")}); ` +
      `options=(${options.map(({ flag, about }) => described(flag, about)).join(" ")}) ;;`,
  );
  const isPlace = places.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  return `#compdef palimpsest
# Completion of palimpsest for zsh.
_palimpsest() {
  local word where="" previous="\${words[CURRENT-1]}"
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${where:+$where }$word" in
    ${isPlace.join("|")}) where="\${where:+$where }$word" ;;
    esac
  done
  case "$where $previous" in
${choiceCases(places, (choices) => `compadd -- ${choices.join(" ")}; return ;;`, "_files; return ;;")}
  esac
  case "$where" in
${cases.join("\n")}
  esac
  if [[ "\${words[CURRENT]}" == -* ]]; then _describe option options
  elif (( \${#commands} )); then _describe command commands
  else _files
  fi
}
if [[ "\${funcstack[1]}" == _palimpsest ]]; then _palimpsest "$@"; else compdef _palimpsest palimpsest; fi
`;
}

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, children, options }) => {
    const here = `-n "__palimpsest_at '${path}'"`;
    return [
      ...children.map(({ name, about }) => `complete -c palimpsest -f ${here} -a ${name} -d '${about}'`),
      ...options.map(({ flag, about, choices, takesFile }) => {
        const named = flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`;
        const values = choices.length > 0 ? ` -x -a '${choices.join(" ")}'` : takesFile ? " -r -F" : "";
        return `complete -c palimpsest ${here} ${named}${values} -d '${about}'`;
      }),
    ];
  });
  const paths = places.filter(({ path }) => path !== "").map(({ path }) => `'${path}'`);
  return `# Completion of palimpsest for fish.
set -g __palimpsest_places ${paths.join(" ")}
function __palimpsest_at
    set -l path ""
    for word in (commandline -opc)[2..-1]
        set -l next (string trim "$path $word")
        contains -- "$next" $__palimpsest_places; and set path "$next"
    end
    test "$path" = "$argv[1]"
end
${lines.join("\n")}
`;
}
