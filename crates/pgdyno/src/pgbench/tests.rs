//! Tests of the front as a whole: command lines, output.
