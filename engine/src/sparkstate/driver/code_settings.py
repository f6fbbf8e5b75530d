"""The settings that a job's code has a word in: the manifest's, decided again once its function has run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sparkstate import errors
from sparkstate.manifest import notices
from sparkstate.manifest.resolved import Resolved
from sparkstate.settings import JobSettings
from sparkstate.spark import environment, graph
from sparkstate.storage import naming
from sparkstate_spec.given import Leaves


@dataclass(frozen=True)
class CodeSettings:
    """``beneath``: what the manifest gives, for the code to read. ``resolve``: the manifest under the fields that the
    code sets; None: no manifest, the settings stay as they are."""

    beneath: Leaves = field(default_factory=dict)
    resolve: Callable[[Leaves], Resolved] | None = None

    def over(
        self, settings: JobSettings, declared: graph.Graph
    ) -> tuple[JobSettings, Mapping[str, tuple[str, str]]]:
        """The settings that count, and value and origin of each field that the code decides. Raises ``SpecInvalid``
        for fields that contradict the manifest, or each other, and if nobody names a checkpoint storage."""
        environment.note_backend(declared)
        code = declared.code.leaves
        told: dict[str, tuple[str, str]] = {}
        if code and self.resolve is not None:
            found = self.resolve(code)
            told = {path: (found.values[path], found.origins[path]) for path in code if path in found.values}
            decided = found.settings
            if "checkpointing.storageType" in code and naming.is_memory(decided.checkpoint.storage):
                declared.code.note(notices.IN_MEMORY)
            settings = replace(
                settings,
                backend=decided.backend,
                checkpoint=decided.checkpoint,
                savepoint=decided.savepoint,
                allow_non_restored_state=decided.allow_non_restored_state,
            )
        if declared.backend is not None:
            settings = replace(settings, backend=declared.backend.effective_settings(settings.backend))
        if not settings.checkpoint.storage:
            raise errors.SpecInvalid(
                "spec.checkpointing.storage is missing, and the job's code names none either; write a folder or a URL "
                "such as s3://bucket/prefix into the manifest, or call "
                "env.get_checkpoint_config().set_checkpoint_storage(…)"
            )
        return settings, told
