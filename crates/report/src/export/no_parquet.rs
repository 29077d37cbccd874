//! What a build without Parquet answers.

use std::io;
use std::marker::PhantomData;

use super::{Column, ExportFormat, Row};

/// A file that cannot be.
pub(super) enum Parquet<W> {
    #[expect(dead_code, reason = "no value of this type exists")]
    Never(std::convert::Infallible, PhantomData<W>),
}

impl<W> Parquet<W> {
    pub(super) fn begin(_: Vec<Column>, _: W) -> io::Result<Parquet<W>> {
        ExportFormat::Parquet.check()?;
        Err(io::ErrorKind::Unsupported.into())
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
