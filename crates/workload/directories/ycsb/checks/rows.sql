select count(*) as rows, :rows_usertable + :committed_insert as expected
from usertable
having count(*) < :rows_usertable + :committed_insert or count(*) > :rows_usertable + :committed_insert + :unknown_insert;
