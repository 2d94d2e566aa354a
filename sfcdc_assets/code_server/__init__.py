"""The process that has the code location of a deployment: it evaluates sensors, and runs are processes below it."""
