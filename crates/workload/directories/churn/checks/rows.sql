select count(*) as rows, count(distinct id) as ids, :rows_account as expected
from account
having count(*) <> :rows_account or count(distinct id) <> :rows_account;
