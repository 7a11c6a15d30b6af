"""One verb a module. Each takes values and returns values; none prints, reads the environment or asks."""
