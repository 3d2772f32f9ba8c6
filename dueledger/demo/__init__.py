"""The demo on real input: a simulated day of an insurer and of a busy continuous integration."""
