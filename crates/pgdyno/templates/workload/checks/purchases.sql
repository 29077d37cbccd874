-- :unknown_buy is how many may have been committed although their connection was lost.
select count(*) as found, :rows_purchase + :committed_buy as expected
from purchase
having count(*) not between :rows_purchase + :committed_buy and :rows_purchase + :committed_buy + :unknown_buy;
