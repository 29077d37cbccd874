select count(*) as rows, :rows_document + :committed_insert as expected
from document
having count(*) < :rows_document + :committed_insert or count(*) > :rows_document + :committed_insert + :unknown_insert;
