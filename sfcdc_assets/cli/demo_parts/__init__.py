"""What `sfcdc demo` and `sfcdc dev` are made of beside what every command has."""
