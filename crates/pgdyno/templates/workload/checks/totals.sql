select purchase.id, purchase.total, sum(purchase_line.quantity * product.price) as of_lines
from purchase
join purchase_line on purchase_line.purchase_id = purchase.id
join product on product.id = purchase_line.product_id
group by purchase.id, purchase.total
having purchase.total <> sum(purchase_line.quantity * product.price)
limit 100;
