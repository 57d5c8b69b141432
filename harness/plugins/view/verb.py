"""`harness view`: the live page of runs."""

import asyncio
import contextlib
import signal
import threading
import webbrowser
from typing import Annotated

import typer

from harness.cli.completion import run_names
from harness.cli.options import RUNS
from harness.config.settings import Settings, has_display
from harness.engine.run_files import runs_named
from harness.plugins.report.runs import TaskAnswers
from harness.plugins.view.app import LiveView, listen, serve
from harness.store.run_folder import RunFolder
from harness.terminal.console import say, write


def view(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help=RUNS, autocompletion=run_names)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    no_browser: bool = False,
) -> None:
    """Follow runs in progress in the browser, and read finished ones.

    The page is served to this machine only, until Ctrl-C. Its address contains a secret token:
    whoever knows the address can read the runs and stop them.

    Args:
        port: Port of the page; 0 uses any free port.
        no_browser: Print the address without opening a browser.
    """
    settings = Settings()
    folders = runs_named(runs or [], settings)
    roots = [settings.runs_dir, *(folder.path.parent for folder in folders)]
    names = [folder.name for folder in folders]
    listener = listen(port)

    def answers_of(folder: RunFolder) -> TaskAnswers | None:
        from harness.plugins.report.recorded_task import (
            task_of,  # not needed before a sample is opened
        )

        return task_of(folder, settings)

    def opened(page: LiveView) -> None:
        url = page.url(names)
        write(url)
        say("Ctrl-C ends the page. Runs continue without it.")
        if not no_browser and has_display():
            # It may wait for a browser to start.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    async def until_signalled() -> None:
        serving = asyncio.create_task(serve(listener, roots, opened, answers_of))
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        await serving

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(until_signalled())
