begin;
update warehouse set w_ytd = w_ytd + :amount where w_id = :w;
update district set d_ytd = d_ytd + :amount where d_w_id = :w and d_id = :d;
update customer
set c_balance = c_balance - :amount::numeric, c_ytd_payment = c_ytd_payment + :amount::numeric, c_payment_cnt = c_payment_cnt + 1
where c_w_id = :w and c_d_id = :d and c_id = :c
returning c_last, c_credit, c_balance;
insert into history (h_c_id, h_c_d_id, h_c_w_id, h_date, h_amount) values (:c, :d, :w, now(), :amount);
commit;
