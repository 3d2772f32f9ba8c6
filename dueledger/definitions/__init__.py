"""Commands on definitions: read, compare, put in force, trigger."""
