"""Start: open runs for the slices that were polled."""
