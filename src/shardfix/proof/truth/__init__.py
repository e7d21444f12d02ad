"""What is believed of the libraries that hand out data, as programs: `shardfix doctor` and the tests run them."""
