"""`make bench`: every benchmark, as a table of ratios and a list of claims. Exit code 1 when a claim does not hold."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.report import Report

NAMES = (
    "decode",
    "informer",
    "embedded",
    "scheduler",
    "scheduler_online",
    "optimiser",
    "reservations",
    "reservations_online",
    "planning",
    "queues",
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def main(names: tuple[str, ...], output: str) -> None:
    """Run the named benchmarks, or all of them."""
    reports = []
    for report in run(names or NAMES):
        reports.append(report)
        if output == "table":
            show(report)
    if output == "json":
        sys.stdout.write(msgspec.json.encode(reports).decode() + "\n")
    sys.exit(0 if all(claim.holds for report in reports for claim in report.claims) else 1)


_WIDE = 200
"""Columns, where the output is not a terminal."""


def run(names: tuple[str, ...]) -> Iterator[Report]:
    progress = Console(stderr=True)
    for name in names:
        with progress.status(f"measuring {name}"):
            report: Report = importlib.import_module(f"bench.{name}").run()
        yield report


def show(report: Report) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    table = Table(title=report.name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    figures = list(dict.fromkeys(figure for row in report.rows for figure in row.figures))
    for figure in figures:
        table.add_column(figure, justify="right")
    table.add_column("ratio", justify="right")
    for row in report.rows:
        cells = [f"{row.figures[figure]:,.4g}" if figure in row.figures else "" for figure in figures]
        table.add_row(row.what, *cells, f"{row.ratio:.1f}x" if row.ratio is not None else "")
    console.print(table)
    for claim in report.claims:
        sign, verdict = ("≥" if claim.at_least else "≤"), ("holds" if claim.holds else "DOES NOT HOLD")
        console.print(f"  {verdict}: {claim.what}: {claim.measured:,.4g} (wanted {sign} {claim.wanted:,.4g})")
    console.print()


if __name__ == "__main__":
    main()
