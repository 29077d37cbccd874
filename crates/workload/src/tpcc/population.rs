//! The parameters that determine every row of a fresh load.

use super::nurand::Constants;
use super::{DISTRICTS, FIRST_UNDELIVERED, ORDERS_PER_DISTRICT, TpccTable};
use crate::random::{self, Prng};

/// A population: the same one gives the same rows, however they are divided into ranges and streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Population {
    /// Number of warehouses.
    pub warehouses: u32,
    /// Seed of every row.
    pub seed: u64,
    /// The workload whose rows these are.
    pub style: PopulationStyle,
    /// When it was loaded, as the server reads a timestamp: C_SINCE, H_DATE and O_ENTRY_D of all rows
    /// (clause 4.3.3.1 asks for the time of populating, and for OL_DELIVERY_D the very O_ENTRY_D of the order).
    pub at: String,
}

/// The workload whose rows a population has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PopulationStyle {
    /// The specification's.
    #[default]
    Spec,
    /// HammerDB's: half of the customers have bad credit, taxes are 10 to 20 %, last names have a constant of 123,
    /// delivered lines have amounts and others none, and some customers have several orders.
    HammerDb,
}

/// The constant for last names at load and at run.
const HAMMERDB_C_LAST: u32 = 123;

/// The district that a row belongs to, and its number there, all from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlace {
    pub(crate) w_id: u64,
    pub(crate) d_id: u64,
    /// Number of the customer or order in its district.
    pub(crate) id: u64,
}

/// Facts of an order that ORDER and ORDER-LINE share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderHead {
    pub(crate) place: RowPlace,
    pub(crate) c_id: u64,
    pub(crate) ol_cnt: u64,
    /// `None` until it is delivered.
    pub(crate) carrier_id: Option<u64>,
}

impl Population {
    /// The random stream of one unit of a table.
    pub(crate) fn stream(&self, table: TpccTable, unit: u64) -> Prng {
        const STEP_TABLE: u64 = 0xa24b_aed4_963e_e407;
        const STEP_UNIT: u64 = 0xd134_2543_de82_ef95;
        let table_base = (table as u64 + 1).wrapping_mul(STEP_TABLE);
        Prng::seed((self.seed ^ table_base).wrapping_add(unit.wrapping_mul(STEP_UNIT)))
    }

    /// C-Load (clause 2.1.6.1) and its companions.
    pub fn constants(&self) -> Constants {
        let constants = Constants::for_load(self.seed);
        match self.style {
            PopulationStyle::Spec => constants,
            PopulationStyle::HammerDb => Constants { c_last: HAMMERDB_C_LAST, ..constants },
        }
    }

    /// The facts that an order and its lines share; `unit` counts orders from 0.
    pub(crate) fn order(&self, unit: u64) -> OrderHead {
        let place = RowPlace::new(unit, ORDERS_PER_DISTRICT);
        let mut prng = self.stream(TpccTable::Orders, unit);
        let ol_cnt = prng.uint64_range(5, 15);
        let carrier_id = (place.id < FIRST_UNDELIVERED).then(|| prng.uint64_range(1, 10));
        let c_id = match self.style {
            PopulationStyle::Spec => self.customer_of(place),
            // HammerDB's shuffle puts a customer that is not drawn yet in each place, and drops the one that it displaces.
            PopulationStyle::HammerDb => prng.uint64_range(place.id, ORDERS_PER_DISTRICT),
        };
        OrderHead { place, c_id, ol_cnt, carrier_id }
    }

    /// O_C_ID: a random permutation of the district's customers (clause 4.3.3.1).
    fn customer_of(&self, place: RowPlace) -> u64 {
        let district = (place.w_id - 1) * DISTRICTS + place.d_id;
        let seed = self.seed.wrapping_add(district.wrapping_mul(0x9e6c_63d0_76cc_4bd9));
        random::permute(place.id as i64 - 1, ORDERS_PER_DISTRICT as i64, seed as i64) as u64 + 1
    }
}

impl RowPlace {
    /// The position of the unit number `unit`, from 0, in a table with this many rows in each district.
    pub(crate) fn new(unit: u64, per_district: u64) -> RowPlace {
        let district = unit / per_district;
        RowPlace {
            w_id: district / DISTRICTS + 1,
            d_id: district % DISTRICTS + 1,
            id: unit % per_district + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_customer_of_a_district_has_one_order() {
        let population =
            Population { warehouses: 2, seed: 5, style: PopulationStyle::Spec, at: String::new() };
        for district in [0, 13] {
            let first = district * ORDERS_PER_DISTRICT;
            let mut customers: Vec<u64> =
                (first..first + ORDERS_PER_DISTRICT).map(|unit| population.order(unit).c_id).collect();
            assert_ne!(customers[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            customers.sort_unstable();
            assert!(customers.into_iter().eq(1..=ORDERS_PER_DISTRICT));
        }
    }

    #[test]
    fn units_belong_to_districts() {
        assert_eq!(RowPlace::new(0, 3000), RowPlace { w_id: 1, d_id: 1, id: 1 });
        assert_eq!(RowPlace::new(2999, 3000), RowPlace { w_id: 1, d_id: 1, id: 3000 });
        assert_eq!(RowPlace::new(30_000, 3000), RowPlace { w_id: 2, d_id: 1, id: 1 });
        assert_eq!(RowPlace::new(29_999, 3000), RowPlace { w_id: 1, d_id: 10, id: 3000 });
    }
}
