"""What others test with what they build for Seamark: suites that every such thing must pass."""
