"""A manifest that the commands take."""

from __future__ import annotations

ROTATIONS = """
apiVersion: sparkstate.io/v1alpha1
kind: StatefulSparkJob
metadata:
  name: rotations
spec:
  pythonFile: job.py
  slots: 2
  stateBackend: {type: hashmap}
  checkpointing: {storage: state, interval: 5s}
"""
