"""Where the tables lie: a folder or an object store, its files, its login, and what it refuses."""
