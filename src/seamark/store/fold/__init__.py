"""Folding: conversion of frames to the state of a run, without files or SQL."""

from __future__ import annotations
