"""The main job on real input: a virtual day of an insurer and of a busy continuous integration."""
