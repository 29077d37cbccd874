//! All templates that are too rare for a transaction of their own, as one: `rest`, whose rows say which of them an execution is.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::directory::draws::{HEAD, Writer, packed};
use crate::directory::script::TemplateScript;
use crate::forms::Forms;
use crate::privacy::Mask;
use crate::role::ValueRole;
use crate::role::variables::{COLUMNS_MAX, DrawColumn, DrawType, Source, Variable, Variables};
use crate::role::view::{SlotPlace, View};
use crate::template::reservoir::Reservoir;
use crate::template::store::Template;

/// The name of the transaction.
pub(super) const NAME: &str = "rest";
/// The variable that says which template it is.
const SHAPE: &str = "shape";
/// Most templates in it; all of them together have no more columns than one may have.
const SHAPES_MAX: usize = 100;
/// Most executions of one template among the rows, and longest script.
const ROWS_MAX: usize = 1000;
const SCRIPT_BYTES_MAX: usize = 512 << 10;

/// The rare templates that fit into one script.
#[derive(Default)]
pub(super) struct Rest<'a> {
    shapes: Vec<Shape<'a>>,
    n_columns: usize,
    n_bytes: usize,
}

struct Shape<'a> {
    template: &'a Template,
    view: View<'a>,
    variables: Variables,
    script: String,
}

impl<'a> Rest<'a> {
    /// Adds a template; `false` if it does not fit.
    pub(super) fn add(
        &mut self,
        template: &'a Template,
        view: View<'a>,
        mut variables: Variables,
        forms: &Forms,
        is_simple: bool,
    ) -> bool {
        // A row cannot be dealt once for some executions only, and errors are expected of a whole transaction.
        let is_plain = template.loops.is_empty()
            && template.error.is_none()
            && !variables.deals_once
            && !variables.may_collide;
        let n_columns = self.n_columns + variables.columns.len();
        if !is_plain || self.shapes.len() >= SHAPES_MAX || n_columns > COLUMNS_MAX {
            return false;
        }
        rename(&mut variables, self.shapes.len() + 1);
        let script = TemplateScript {
            view: &view,
            forms,
            variables: &variables,
            is_block: template.is_block,
            is_simple,
        }
        .text();
        if self.n_bytes + script.len() > SCRIPT_BYTES_MAX {
            return false;
        }
        self.n_columns = n_columns;
        self.n_bytes += script.len();
        self.shapes.push(Shape { template, view, variables, script });
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The script: the statements of the template that the row is of.
    pub(super) fn script(&self) -> String {
        let mut out = String::new();
        for (n, shape) in self.shapes.iter().enumerate() {
            let word = if n == 0 { "if" } else { "elif" };
            out.push_str(&format!("\\{word} :{SHAPE} = {}\n{}", n + 1, shape.script));
        }
        out.push_str("\\endif\n");
        out
    }

    /// All templates as one, for its rate and its share.
    pub(super) fn template(&self) -> Template {
        let mut all = Template {
            core: Vec::new(),
            loops: Vec::new(),
            is_block: false,
            error: None,
            n: 0,
            shares: BTreeMap::new(),
            by_session: BTreeMap::new(),
            sample: Reservoir::new(0),
        };
        for shape in &self.shapes {
            all.n += shape.template.n;
            for (form, share) in &shape.template.shares {
                all.shares.entry(*form).or_default().add(*share);
            }
            for (session, n) in &shape.template.by_session {
                *all.by_session.entry(*session).or_default() += n;
            }
        }
        all
    }

    /// The variables of all of them.
    pub(super) fn variables(&self) -> Variables {
        let place = SlotPlace { step: 0, slot: usize::MAX };
        let column = DrawColumn {
            name: SHAPE.to_string(),
            kind: DrawType::Int,
            source: Source::Sequence(place, 0),
            in_loop: None,
            of_column: None,
            is_text: Some(false),
        };
        let shape = Variable {
            name: SHAPE.to_string(),
            role: ValueRole::Value,
            in_loop: None,
            expression: Some(format!("draw.{SHAPE}")),
            place,
            distinct: (self.shapes.len(), self.shapes.len()),
        };
        let mut all = Variables { all: vec![shape], columns: vec![column], ..Variables::default() };
        for shape in &self.shapes {
            all.all.extend(shape.variables.all.iter().cloned());
            all.columns.extend(shape.variables.columns.iter().cloned());
        }
        all
    }

    /// The captured rows, each with its template; the values of others are null.
    ///
    /// # Errors
    /// When they cannot be packed.
    pub(super) fn file(&self, mask: &mut Mask) -> Result<Vec<u8>> {
        let columns = self.shapes.iter().flat_map(|shape| &shape.variables.columns);
        let heads: Vec<String> =
            columns.map(|column| format!("{}:{}", column.name, column.kind.word())).collect();
        let mut text = format!("{HEAD}{SHAPE}:int\t{}", heads.join("\t")).trim_end_matches('\t').to_string();
        text.push('\n');
        let most = self.shapes.iter().map(|shape| shape.template.n).max().unwrap_or(1).max(1);
        let mut before = 0;
        for (n, shape) in self.shapes.iter().enumerate() {
            let own = shape.variables.columns.len();
            // As many rows as its share of the executions.
            let wanted = if most as usize > ROWS_MAX {
                (shape.template.n as usize * ROWS_MAX).div_ceil(most as usize)
            } else {
                shape.template.n as usize
            };
            let rows = shape.view.rows.len().max(1);
            let mut writer = Writer::new(&shape.view, mask);
            for at in 0..wanted {
                let mut fields = vec![(n + 1).to_string()];
                fields.extend(std::iter::repeat_n("\\N".to_string(), before));
                fields.extend(writer.fields(&shape.variables.columns, at % rows));
                fields.extend(std::iter::repeat_n("\\N".to_string(), self.n_columns - before - own));
                text.push_str(&fields.join("\t"));
                text.push('\n');
            }
            before += own;
        }
        packed(&text)
    }

    /// Number of its templates, for people.
    pub(super) fn n_shapes(&self) -> usize {
        self.shapes.len()
    }
}

/// Gives the variables of a template names that no other one has.
fn rename(variables: &mut Variables, number: usize) {
    let prefix = format!("r{number}_");
    for column in &mut variables.columns {
        column.name = format!("{prefix}{}", column.name);
    }
    for variable in &mut variables.all {
        variable.name = format!("{prefix}{}", variable.name);
        if let Some(expression) = &mut variable.expression {
            *expression = expression.replace("draw.", &format!("draw.{prefix}"));
        }
        variable.place.slot = usize::MAX;
    }
    for gset in variables.gsets.values_mut() {
        *gset = format!("{prefix}{gset}");
    }
}
