-- Exact unless rows were deleted or inserted alone: a delete finds a row or none, and chooses one table of several.
select '{name}' as "table", count(*) as rows, :rows_sbtest1 as expected
from sbtest{n}
having count(*) < :rows_sbtest1 - :committed_delete - :unknown_delete
    or count(*) > :rows_sbtest1 + :committed_insert + :unknown_insert;
