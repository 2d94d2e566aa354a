"""What an administrator changes while the org lives: fields, rights, channels, keys."""
