"""What objects look like: their definitions, the files these are read from, and every version they had."""
