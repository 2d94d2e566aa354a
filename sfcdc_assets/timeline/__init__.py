"""What a record's versions, texts and suspects are: values in, values out. Knows neither Spark nor the tables."""
