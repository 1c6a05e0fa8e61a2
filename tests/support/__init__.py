"""What tests share: streams, comparisons with the oracle, Spark, servers, the command line."""
