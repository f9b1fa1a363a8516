"""What takes the GPU's place on a machine without one: a table, the stand-ins, and one installer. Nothing else of the engine is replaced."""
