"""Folding of stored journals into the store, in separate processes."""
