//! What a build without Parquet answers.

use std::io;
use std::marker::PhantomData;

use super::{Column, Row};

/// A file that cannot be.
pub(super) enum Parquet<W> {
    #[expect(dead_code, reason = "no value of this type exists")]
    Never(std::convert::Infallible, PhantomData<W>),
}

impl<W> Parquet<W> {
    pub(super) fn begin(_: Vec<Column>, _: W) -> io::Result<Parquet<W>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this build of pgdyno writes no Parquet: take a package, which does, build with `--features parquet`, or export CSV",
        ))
    }

    pub(super) fn rows(&mut self, _: &[Row]) -> io::Result<()> {
        match *self {
            Parquet::Never(never, _) => match never {},
        }
    }

    pub(super) fn end(self) -> io::Result<W> {
        match self {
            Parquet::Never(never, _) => match never {},
        }
    }
}
