"""The bound on the memory of a slot's overlays: weighing, and what goes to disk. It knows tables, and no operator."""
