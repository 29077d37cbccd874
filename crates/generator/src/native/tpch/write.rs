//! Rows of a part of a table, as COPY's text format: dbgen's own form with tabs, because no value has a tab, a backslash or a bar.

use std::fmt::{Display, Write};

use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::native::rows::{RowBlock, Section};
use crate::native::tpch::{SharedText, TpchTable, scale_factor};

impl TpchTable {
    /// Adds the rows of a section to a block.
    pub(in crate::native) fn write(
        self,
        scale: u32,
        section: Section,
        shared: &SharedText,
        block: &mut RowBlock,
    ) {
        let (factor, words, text) = (scale_factor(scale), Distributions::static_default(), shared.text());
        let number = |n: u64| i32::try_from(n).expect("a scale that is not refused has at most 2^31 orders");
        let (part, n_parts) = (number(section.part), number(section.n_parts));
        // The library makes small tables only whole.
        let first = ((section.part - 1) * section.n_rows) as usize;
        let n_rows = section.n_rows as usize;
        match self {
            TpchTable::Region => {
                let all = RegionGenerator::new_with_distributions_and_text_pool(words, text);
                block.push_all(all.iter().skip(first).take(n_rows));
            }
            TpchTable::Nation => {
                let all = NationGenerator::new_with_distributions_and_text_pool(words, text);
                block.push_all(all.iter().skip(first).take(n_rows));
            }
            TpchTable::Supplier => block.push_all(
                SupplierGenerator::new_with_distributions_and_text_pool(factor, part, n_parts, words, text)
                    .iter(),
            ),
            TpchTable::Customer => block.push_all(
                CustomerGenerator::new_with_distributions_and_text_pool(factor, part, n_parts, words, text)
                    .iter(),
            ),
            TpchTable::Part => block.push_all(
                PartGenerator::new_with_distributions_and_text_pool(factor, part, n_parts, words, text)
                    .iter(),
            ),
            TpchTable::PartSupp => {
                block.push_all(PartSuppGenerator::new_with_text_pool(factor, part, n_parts, text).iter())
            }
            TpchTable::Orders => block.push_all(
                OrderGenerator::new_with_distributions_and_text_pool(factor, part, n_parts, words, text)
                    .iter(),
            ),
            TpchTable::LineItem => block.push_all(
                LineItemGenerator::new_with_distributions_and_text_pool(factor, part, n_parts, words, text)
                    .iter(),
            ),
        }
    }
}

/// Bars become tabs.
struct CopyText<'a>(&'a mut Vec<u8>);

impl Write for CopyText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend(text.bytes().map(|byte| if byte == b'|' { b'\t' } else { byte }));
        Ok(())
    }
}

impl RowBlock {
    /// Adds rows of dbgen's form, in which each value ends with a bar.
    fn push_all<Row: Display>(&mut self, rows: impl Iterator<Item = Row>) {
        for row in rows {
            write!(CopyText(&mut self.text), "{row}").expect("a vector takes all");
            self.text.pop();
            self.text.push(b'\n');
            self.ends.push(self.text.len());
        }
    }
}
