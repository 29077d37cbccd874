//! Rows as Apache Parquet: optional columns of 64-bit integers, doubles and UTF-8 text, compressed with Snappy, which every
//! reader knows.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{Cell, Column, Kind, Row};

pub(super) struct Parquet<W: Write + Send> {
    columns: Vec<Column>,
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn begin(columns: Vec<Column>, out: W) -> io::Result<Parquet<W>> {
        let fields = columns.iter().map(|column| field(column).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let schema = Type::group_type_builder("row").with_fields(fields).build().map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("pgdyno {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Parquet { columns, file: file.map_err(io::Error::other)? })
    }

    /// Writes rows as one group.
    pub(super) fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(io::Error::other)?;
        for (at, column) in self.columns.iter().enumerate() {
            let writer = group.next_column().map_err(io::Error::other)?;
            let mut writer = writer.ok_or_else(|| io::Error::other("a column is missing"))?;
            write(&mut writer, column.kind, rows.iter().map(|row| &row[at]))?;
            writer.close().map_err(io::Error::other)?;
        }
        group.close().map(|_| ()).map_err(io::Error::other)
    }

    pub(super) fn end(self) -> io::Result<W> {
        self.file.into_inner().map_err(io::Error::other)
    }
}

fn field(column: &Column) -> parquet::errors::Result<Type> {
    let physical = match column.kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Int => Physical::INT64,
        Kind::Float => Physical::DOUBLE,
    };
    let is_text = column.kind == Kind::Text;
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(is_text.then_some(LogicalType::String))
        .build()
}

/// Writes a column: which rows have a value (level 1), and the values.
fn write<'a>(
    writer: &mut SerializedColumnWriter,
    kind: Kind,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> io::Result<()> {
    let levels: Vec<i16> = cells.clone().map(|cell| i16::from(*cell != Cell::None)).collect();
    let written = match kind {
        Kind::Text => {
            let texts = cells.filter_map(|cell| match cell {
                Cell::Text(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
                _ => None,
            });
            writer.typed::<ByteArrayType>().write_batch(&texts.collect::<Vec<_>>(), Some(&levels), None)
        }
        Kind::Int => {
            let numbers = cells.filter_map(|cell| match cell {
                Cell::Int(number) => Some(*number),
                _ => None,
            });
            writer.typed::<Int64Type>().write_batch(&numbers.collect::<Vec<_>>(), Some(&levels), None)
        }
        Kind::Float => {
            let numbers = cells.filter_map(|cell| match cell {
                Cell::Float(number) => Some(*number),
                _ => None,
            });
            writer.typed::<DoubleType>().write_batch(&numbers.collect::<Vec<_>>(), Some(&levels), None)
        }
    };
    written.map(|_| ()).map_err(io::Error::other)
}
