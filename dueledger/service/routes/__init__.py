"""Routes, a module for each subject."""
