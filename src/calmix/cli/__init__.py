"""Command line: each command is a file with a record of its options and a `main` that does the work.

`main` turns bad input into one line on standard error and exit code 2, Ctrl-C into exit code 130, and SIGTERM
into 143, after a last checkpoint.
"""

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence

from calmix import interrupts
from calmix.errors import InputError, one_of, printable
from calmix.memory import keep_freed_memory, seldom_garbage_collection
from calmix.threads import use_one_thread
from calmix.version import __version__

# command: (what it does, for the overview). Each lives in calmix.cli.<command> as `main(arguments)`.
COMMANDS = {
    "demo": "train on embedded digits and see the pathology and its cure, in minutes",
    "train": "train one run from a recipe; resumes, or returns at once when finished",
    "evaluate": "predict with a run and compute every metric, clean and corrupted",
    "predict": "write the pooled probabilities of a run for new inputs",
    "audit": "judge the calibration of predictions from any framework, and say what would help",
    "compare": "compare two models, or one at two dates, metric by metric",
    "calibrate": "fit a calibrator on validation predictions, apply it to others",
    "report": "one page with tables and figures of many runs",
    "reproduce": "train and show the paper's tables and figures, its numbers beside the measured ones",
    "sweep": "train a grid over any recipe fields, and show tables and curves",
    "claims": "judge the paper's claims on the runs that there are",
    "table": "numbers of many runs as Markdown, CSV, LaTeX or JSON",
    "data": "list the data sets: what is here, what is missing, how to get it",
    "corrupt": "write the corrupted test sets in the official layout",
}


STOPPED = "what was finished is kept, the same command goes on from there"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that is no UTF-8 is shown, and no error
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        interrupts.end_imports()
        with interrupts.raising():
            sys.exit(_dispatch(words))
    except InputError as error:
        _fail(error)
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        print(f"calmix: stopped; {STOPPED}", file=sys.stderr)
        sys.exit(130)
    except interrupts.Terminated:
        print(f"calmix: terminated; {STOPPED}", file=sys.stderr)
        sys.exit(143)
    except OSError as error:
        # A full disk, a folder that may not be written, a file that vanished: no defect of calmix.
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except MemoryError:
        _fail("out of memory; choose a smaller network, batch_size or file")
    except RuntimeError as error:
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        _fail(f"out of memory: {str(error).splitlines()[0]}")


def _fail(message: object) -> None:
    print(f"calmix: {printable(message)}", file=sys.stderr)
    sys.exit(2)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"calmix {__version__}")
        return 0
    one_of("command", words[0], COMMANDS)
    keep_freed_memory()
    use_one_thread()
    with contextlib.ExitStack() as stack:
        interrupts.begin_imports()
        stack.callback(interrupts.end_imports)
        command = importlib.import_module(f"calmix.cli.{words[0]}")
    with seldom_garbage_collection():
        status: int | None = command.main(words[1:])
    sys.stdout.flush()  # here, where it is noticed if the reader of our output has gone
    return status or 0


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "calmix: ensembles and Mixup, calibrated together\n\n"
        f"usage: calmix COMMAND [options]\n\n{lines}\n\n"
        "example: calmix train --dataset digits --ensemble deep --augment camixup --out runs\n"
        "`calmix COMMAND --help` shows a command's options with an example."
    )
