"""Folding of stored journals into the store by separate processes."""
