"""The lab: a real local store, a tiny model, and stand-ins for the GPU where there is none."""
