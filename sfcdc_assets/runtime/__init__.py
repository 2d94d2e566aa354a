"""What every part may use: the clock, errors, foreign text, progress, and work side by side. Imports no other place."""
