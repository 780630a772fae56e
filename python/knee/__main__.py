"""``python -m knee sweep``: what ``knee sweep`` becomes with ``--ray`` or ``--store``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import NoReturn

from knee import experiment
from knee._errors import ExperimentError
from knee._experiment import Experiment
from knee._result import Result
from knee._sweep import Ray, Shard, sweep

_DONE, _COULD_NOT = 0, 2


class _Parser(argparse.ArgumentParser):
    """Refuses what the package has not in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and ends with code 2."""
        of_others = message.removeprefix("unrecognized arguments: ")
        if of_others != message:
            message = f"{of_others}: does not go with --ray and --store: leave it out, or run shards without them"
        print(f"knee: {message}", file=sys.stderr)
        sys.exit(_COULD_NOT)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="knee sweep",
        description="Many runs on a Ray cluster, or with a store elsewhere: knee sweep --help describes the flags.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument("--ray", metavar="ADDRESS")
    parser.add_argument("--store", metavar="PLACE")
    parser.add_argument("--shard", metavar="I/N")
    parser.add_argument("--until", metavar="FIGURE")
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--cc", action="append", default=[], metavar="NAME,...")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=LIST")
    parser.add_argument("--repeat", type=int, metavar="N")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--scale", type=float, metavar="S")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stat", action="append", default=[], metavar="STAT")
    parser.add_argument("--memory", metavar="SIZE")
    parser.add_argument("--profile", metavar="VERSION")
    return parser


def _pairs(words: list[str], flag: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not equals:
            raise ExperimentError(f"{flag} {key}: must be KEY=VALUE")
    return tuple((key, value) for key, _, value in pairs)


def _experiment(args: argparse.Namespace) -> Experiment:
    """The experiment with the flags, which are written as those of the command."""
    one = experiment(args.file)
    if args.profile == "running":
        raise ExperimentError(
            "--profile running: workers may run another kernel: give a version, as 6.12"
        )
    profile = () if args.profile is None else (("hosts.linux", f'"{args.profile}"'),)
    changes = replace(
        one._changes,
        cc=tuple(name for words in args.cc for name in words.split(",")),
        pairs=profile + _pairs(args.set, "--set"),
        axes=_pairs(args.vary, "--vary"),
        quick=args.quick,
        stats=tuple(args.stat),
        memory=args.memory,
    )
    one = Experiment._of(one._path, one._text, changes)
    repeat = None if args.until is not None else args.repeat
    return one.with_(repeat=repeat, seed=args.seed, scale=args.scale)


def main(words: list[str] | None = None) -> int:
    """Returns the exit code: 0 done, 2 could not run or was stopped."""
    words = sys.argv[1:] if words is None else words
    args = _parser().parse_args(words[1:] if words[:1] == ["sweep"] else words)
    try:
        most = {} if args.repeat is None else {"most_repeats": args.repeat}
        made = sweep(
            _experiment(args),
            args.output,
            engine="threads" if args.ray is None else Ray(args.ray),
            store=args.store,
            shard=args.shard,
            until=args.until,
            threads=args.threads,
            **most,
        )
    except ExperimentError as why:
        print(f"knee: {why}", file=sys.stderr)
        return _COULD_NOT
    except KeyboardInterrupt:
        print("knee: stopped: the same command goes on", file=sys.stderr)
        return _COULD_NOT
    for sentence in made.failed[:20]:
        print(f"knee: {sentence}", file=sys.stderr)
    if isinstance(made, Shard):
        print(
            f"{made.runs_done} runs of the shard are stored, {made.runs_earlier} of them from before"
        )
    elif isinstance(made, Result):
        print(f"{made!r}\nresults in {made.dir}")
    return _COULD_NOT if made.interrupted or made.failed else _DONE


if __name__ == "__main__":
    sys.exit(main())
