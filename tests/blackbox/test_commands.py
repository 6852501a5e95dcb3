"""One table of verbs: help, the completion of shells and the manual page say the same (API 6)."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

from rig import Done, Rig, binary, case, check, equal, run_command
from test_admin import good_and_dead

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "packaging" / "ranvier.1.scd"


async def told(*words: str) -> str:
    done: Done = await run_command([*binary(), *words])
    check(done.code == 0 and not done.err, f"{words} ended with {done.code}: {done.err[:200]}")
    return done.out


async def verbs() -> dict[str, str]:
    """Each verb with its usage, as the program's help has them: {"ls": "ls [SELECTOR]"}."""
    out = {}
    for line in (await told("--help")).splitlines():
        found = re.match(r"  ([a-z]\S*(?: [a-z]+)?)((?: [\[A-Z-]\S*| [a-z]+\|\S*)*)(?:  |$)", line)
        if found:
            out[found[1]] = found[1] + found[2]
    check(len(out) > 25, f"help has only {sorted(out)}")
    return out


def in_manual() -> dict[str, str]:
    """The same from the manual's section VERBS."""
    text = MANUAL.read_text()
    part = text[text.index("# VERBS"):text.index("# SELECTORS")]
    out = {}
    for line in part.splitlines():
        if not line.startswith("*"):
            continue
        for each in re.split(r", (?=\*)", line):
            usage = each.replace("*", "").replace("\\_", "\0").replace("_", "").replace("\0", "_")
            found = re.match(r"((?:config |db )?\S+)(.*)", usage)
            assert found
            out[found[1]] = usage
    return out


def options_in(help_text: str) -> set[str]:
    return set(re.findall(r"(?:^  | |,)(--?[a-z][a-z-]*)", help_text, re.M))


@case("commands-help")
async def help_of_each(rig: Rig) -> None:
    """Each verb's help has its arguments, a sentence and examples, whose options the verb has."""
    for verb, usage in (await verbs()).items():
        text = await told(*verb.split(), "--help")
        check(f"Usage: ranvier {usage}" in text, f"{verb}: {text[:200]!r}")
        examples = text.split("Examples:\n")[1].strip().splitlines()
        check(examples, f"{verb} has no example")
        for line in examples:
            check(f"ranvier {verb}" in line, f"{verb}: the example {line!r}")
            for option in re.findall(r" (--?[a-z][a-z-]*)", line):
                check(option in options_in(text), f"{verb}: the example {line!r} has {option}, which help hasn't")


@case("commands-manual")
async def manual(rig: Rig) -> None:
    """The manual page has every verb, with the arguments that help shows, and no other; options that it names exist."""
    real, page = await verbs(), in_manual()
    equal(set(real) - set(page), set(), "verbs that the manual hasn't")
    equal(set(page) - set(real), set(), "verbs that only the manual has")
    for verb, usage in real.items():
        shown = re.sub(r" ?\[-[^]]*\]", "", page[verb])
        equal(shown, usage, f"the manual's usage of {verb}")
        for option in re.findall(r"--?[a-z][a-z-]*", page[verb][len(verb):]):
            check(option in options_in(await told(*verb.split(), "--help")), f"{verb} has no {option}")


async def shell(*words: str) -> str:
    done = await run_command(list(words))
    check(done.code == 0, f"{words[0]} ended with {done.code}: {done.err[:300]}")
    return done.out


async def by_bash(script: Path, words: list[str]) -> set[str]:
    line = " ".join(f"'{w}'" for w in words)
    return set((await shell("bash", "--norc", "-c", f"PATH={Path(binary()[0]).parent}:$PATH; source {script}; "
                            f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ranvier; "
                            'printf "%s\\n" "${COMPREPLY[@]}"')).split())


async def by_fish(script: Path, words: list[str]) -> set[str]:
    line = " ".join(words)
    out = await shell("fish", "--no-config", "-c", f"set -p PATH {Path(binary()[0]).parent}; source {script}; "
                      f"complete -C '{line}'")
    return {each.split("\t")[0] for each in out.splitlines()}


@case("commands-completion", timeout=60)
async def completion(rig: Rig) -> None:
    """bash and fish complete verbs, options, choices and the names of servers; zsh takes its script; others: 64."""
    engine, good, dead, _ = await good_and_dead(rig)
    names = {verb.split()[0] for verb in await verbs()}
    tried = 0
    for name, complete in (("bash", by_bash), ("fish", by_fish)):
        if not shutil.which(name):
            continue
        tried += 1
        script = engine.data / f"completion.{name}"
        script.write_text(await told("completion", name))
        equal(names - await complete(script, ["ranvier", ""]), set(), f"verbs that {name} doesn't offer")
        equal(await complete(script, ["ranvier", "ver"]), {"version"}, f"{name}: ver")
        check({"--state", "--sort", "--watch"} <= await complete(script, ["ranvier", "ls", "--"]), f"{name}: ls --")
        equal(await complete(script, ["ranvier", "ls", "--state", "c"]), {"closed"}, f"{name}: ls --state c")
        equal(await complete(script, ["ranvier", "completion", "z"]), {"zsh"}, f"{name}: completion z")
        equal(await complete(script, ["ranvier", "config", ""]), {"show"}, f"{name}: config")
    check(tried, "neither bash nor fish is here")
    if shutil.which("zsh"):
        script = engine.data / "_ranvier"
        script.write_text(await told("completion", "zsh"))
        await shell("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -u -D; source {script}; "
                    "whence -w _ranvier; [[ $_comps[ranvier] == _ranvier ]]")
    done = await run_command([*binary(), "completion", "tcsh"])
    equal(done.code, 64, "the exit code for another shell")
