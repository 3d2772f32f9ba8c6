"""What every process needs to run: its loop, settings, log and memory."""
