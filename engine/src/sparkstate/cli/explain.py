"""``sparkstate explain``: every effective setting, where it comes from, and the memory sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sparkstate import manifest
from sparkstate.cli import manifests, output


@click.command()
@manifests.manifest_argument
@manifests.set_option
@output.format_option("json", "yaml")
def explain(manifest_path: Path, overrides: tuple[str, ...], form: str) -> None:
    """Show every effective setting of a job with its origin, and how much memory the job needs.

    Starts nothing and reads no storage.

    \b
    Examples:
      sparkstate explain job.yaml
      sparkstate explain job.yaml --set spec.slots=4 -o json
    """
    resolved = manifest.resolve(manifest.load(manifest_path, overrides))
    memory = manifest.memory_sum(resolved.settings)
    if form != "table":
        output.emit(_document(resolved, memory), form)
        return
    output.table(("SETTING", "VALUE", "ORIGIN"), manifest.explain_rows(resolved))
    click.echo(f"\nmemory\n{memory}")
    click.echo(
        f"for the state backend {resolved.settings.backend.type}; one that the job's code sets (set_state_backend) "
        "is known only when it runs"
    )
    for notice in resolved.notices:
        click.echo(f"\nnote: {notice}")


def _document(resolved: manifest.Resolved, memory: manifest.MemorySum) -> dict[str, Any]:
    rows = manifest.explain_rows(resolved)
    return {
        "name": resolved.settings.name,
        "namespace": resolved.settings.namespace,
        "settings": {path: {"value": value, "origin": origin} for path, value, origin in rows},
        "memory": {
            "totalBytes": memory.total,
            "backend": resolved.settings.backend.type,
            "parts": [
                {
                    "name": part.name,
                    "count": part.count,
                    "totalBytes": part.total,
                    "items": [
                        {"name": item.name, "count": item.count, "eachBytes": item.each}
                        for item in part.items
                    ],
                }
                for part in memory.parts
            ],
        },
        "notices": resolved.notices,
    }
