"""Tests of builds that one farm serves one after another, for none harms it or needs it empty."""
