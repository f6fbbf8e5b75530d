"""Keyed state as a function sees it: handles and cursor over one overlay, above the committed tables of the stores."""
