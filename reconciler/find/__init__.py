"""Find: turn differences into findings, and record them."""
