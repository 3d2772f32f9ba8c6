"""What the commands do with definitions: read, compare, put in force, trigger."""
