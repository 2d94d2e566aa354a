"""The services of deploy/ for an hour, with traffic, while one part after another dies."""
