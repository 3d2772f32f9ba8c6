"""Pages, a module for each subject."""
